#!/bin/sh
# The first process of the machine: hands it to systemd, with the steps as a service whose output leaves the machine.
mkdir -p /job
mount -o ro /dev/vdc /job
modprobe kvm-amd
for module in tun nf_tables; do modprobe "$module"; done
hostname package
port() { for path in /sys/class/virtio-ports/*; do [ "$(cat "$path/name")" = "$1" ] && echo "/dev/${path##*/}"; done; }
cat >/etc/systemd/system/steps.service <<END
[Unit]
After=multi-user.target
[Service]
Type=exec
ExecStart=/bin/bash -c 'bash /job/steps.sh; echo \$? >$(port lab.status); sync; echo o >/proc/sysrq-trigger'
StandardOutput=file:$(port lab.output)
StandardError=inherit
END
mkdir -p /etc/systemd/system/multi-user.target.wants
ln -sf ../steps.service /etc/systemd/system/multi-user.target.wants/steps.service
exec /lib/systemd/systemd
