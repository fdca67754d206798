#!/bin/bash
# The first process of the lab: makes a host of the machine, runs the job's command, hands its output and status out.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb

power_off() {
  sync
  echo o >/proc/sysrq-trigger
  sleep 60
}

give_up() {
  echo "lab: $*"
  power_off
}

port() {
  for path in /sys/class/virtio-ports/*; do
    if [ "$(cat "$path/name")" = "$1" ]; then echo "/dev/${path##*/}"; fi
  done
}

exec >"$(port lab.output)" 2>&1
status_port=$(port lab.status)

mkdir -p /dev/pts /dev/shm
mount -t devpts -o mode=0620,ptmxmode=0666 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -snf /proc/self/fd /dev/fd
ip link set lo up
hostname lab

# Emulated arm64 machines have no virtualisation: guests of the daemon are emulated once more.
if [ "$(uname -m)" = x86_64 ]; then
  modprobe kvm-amd || give_up 'the module kvm-amd does not load: the emulated CPU has no SVM'
  kvm="/dev/kvm with nested paging $(cat /sys/module/kvm_amd/parameters/npt)"
else
  kvm='no KVM'
fi
for module in tun nf_tables; do modprobe "$module" || give_up "the module $module does not load"; done

mount -o ro,noatime /dev/vdc /lab/job || give_up 'no disk with the job'
mount -o noatime,nobarrier /dev/vdd /data || give_up 'no disk for data'
# What a run writes beside the sources stays on the data disk.
mkdir -p /data/.upper /data/.work
mount -t overlay -o lowerdir=/lab/job/checkout,upperdir=/data/.upper,workdir=/data/.work overlay /lab/checkout ||
  give_up 'no checkout'
# An image's manifest knows its time to the millisecond, which making a disk of it loses.
while read -r seconds path; do touch -d "@$seconds" "/data/$path"; done </lab/job/times

echo "lab: Linux $(uname -r), $(nproc) CPUs, $(awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo) MiB," \
  "$kvm, up after $(cut -d ' ' -f 1 /proc/uptime) s"
for node in /lab/checkout/node_modules/node-linux-*/bin; do PATH=$node:/lab/job/bin:$PATH; done
export DATA_DIR=/data PATH
cd /lab/checkout && bash /lab/job/command </dev/null
echo $? >"$status_port"
power_off
