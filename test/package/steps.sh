#!/bin/bash
# Runs in a booted Debian with systemd: the package is installed, used, upgraded, removed, purged. A line of TAP for each step.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive
job=/job
failed=0
number=0

step() {
  title=$1
  shift
  number=$((number + 1))
  if "$@" >/tmp/step 2>&1; then
    echo "ok $number - $title"
  else
    failed=$((failed + 1))
    echo "not ok $number - $title"
    tail -n 30 /tmp/step | sed 's/^/  # /'
    journalctl -u sandboxd --no-pager -n 30 -o cat | cut -c 1-500 | sed 's/^/  # journal: /'
  fi
}

install_package() { apt-get install --yes "$1"; }
# Also: not by an executable that an upgrade has taken away.
is_served() {
  systemctl is-active sandboxd && [ "$(dpkg-query -W -f '${Version}' sandboxd)" = "$1" ] &&
    [ "$(readlink "/proc/$(main_pid)/exe")" = /usr/lib/sandboxd/sandboxd ] && sandbox images
}
unit=/lib/systemd/system/sandboxd.service
main_pid() { systemctl show -P MainPID sandboxd; }
on_loopback_alone() {
  ss -Hltnp
  [ "$(ss -Hltnp | grep "pid=$(main_pid)," | awk '{print $4}')" = 127.0.0.1:7878 ]
}
# By its profile, which the first create bakes from the mirror.
create() { id=$(sandbox run -p 8080:80 base) && [ -n "$id" ] && echo "$id" >/tmp/id; }
answers() { [ "$(sandbox exec "$(cat /tmp/id)" sh -c 'cat /tmp/mark 2>/dev/null || echo first >/tmp/mark; hostname')" != '' ]; }
remembers() { sandbox exec "$(cat /tmp/id)" cat /tmp/mark | grep -q first; }
group=/sys/fs/cgroup/sandboxd.slice/sandboxd-vmms.service
in_group() { cat $group/vmm-*/cgroup.procs | grep -q .; }
# 512 MiB of the guest and what a VMM takes beside it; it counts what is used, and holds to it.
is_bounded() {
  for file in memory.max memory.swap.max memory.current pids.max pids.current cpu.max cpu.weight; do
    echo "$file: $(cat $group/vmm-*/$file)"
  done
  [ "$(cat $group/vmm-*/memory.max)" -le $((1024 * 1024 * 1024)) ] && [ "$(cat $group/vmm-*/memory.current)" -gt 10000000 ] &&
    [ "$(cat $group/vmm-*/memory.swap.max)" = 0 ] && [ "$(cat $group/vmm-*/pids.max)" -gt 1 ]
}
# In which the kernel ends what goes beyond.
is_enforced() {
  mkdir $group/vmm-test && echo 20000000 >$group/vmm-test/memory.max && echo 0 >$group/vmm-test/memory.swap.max || return 1
  bash -c "echo \$\$ >$group/vmm-test/cgroup.procs; head -c 100000000 /dev/zero | tail -c 90000000 | tail -n 1" >/dev/null
  cat $group/vmm-test/memory.events
  grep -q 'oom_kill [1-9]' $group/vmm-test/memory.events
  status=$?
  rmdir $group/vmm-test
  return $status
}
is_hardened() {
  status=/proc/$(main_pid)/status
  grep -E 'NoNewPrivs|Seccomp:|CapBnd' "$status"
  grep -q 'NoNewPrivs:.1' "$status" && grep -q 'Seccomp:.2' "$status" &&
    [ $((0x$(awk '/CapBnd/ {print $2}' "$status") & (1 << 16 | 1 << 17 | 1 << 22 | 1 << 25))) = 0 ]
}
has_network() { nft list tables | grep -q sandboxd_ && ls /run/sandboxd/net/* && grep -q ' /run/sandboxd/net/' /proc/mounts; }
doctor() {
  sandboxd doctor --quick
  [ $? -lt 2 ]
}
restart() { systemctl restart sandboxd && remembers; }
# Until systemd has started it anew.
returns() {
  pid=$(main_pid)
  kill "-$1" "$pid"
  for _ in $(seq 900); do
    now=$(main_pid)
    [ "$now" != 0 ] && [ "$now" != "$pid" ] && systemctl is-active --quiet sandboxd && break
    sleep 1
  done
  remembers
}
crash() { returns KILL; }
# A daemon that does nothing any more does not say that it is well.
stands_still() { returns STOP && journalctl -u sandboxd -o cat | grep 'Watchdog timeout'; }
watched() { grep -qx WatchdogSec=2min "$unit" && systemctl show sandboxd -P WatchdogUSec | grep -q 8min && systemctl status sandboxd --no-pager | grep -q 'Status: "listening on'; }
downgrade() {
  dpkg --install $job/old.deb >/tmp/refusal 2>&1 && return 1
  cat /tmp/refusal
  grep -q 'refusing to replace version' /tmp/refusal && is_served "$(cat $job/new)" && remembers
}
remove() {
  apt-get remove --yes sandboxd >/tmp/removal 2>&1 || return 1
  cat /tmp/removal
  grep -q 'sandbox processes keep running' /tmp/removal && ! systemctl is-active sandboxd && [ -d /var/lib/sandboxd/profiles/base ] && in_group
}
purge() { apt-get purge --yes sandboxd; }
nothing_left() {
  status=0
  for path in /var/lib/sandboxd /run/sandboxd /run/sandboxd-uids /etc/sandboxd /etc/systemd/system/multi-user.target.wants/sandboxd.service; do
    [ ! -e "$path" ] || { echo "there: $path" && status=1; }
  done
  find /sys/fs/cgroup \( -name 'vmm-*' -o -name 'helper-*' \) | grep . && status=1
  nft list tables | grep sandboxd_ && status=1
  grep sbx /proc/net/dev && status=1
  grep sandboxd /proc/mounts && status=1
  pgrep -a 'qemu|sandboxd' && status=1
  [ "$(cat /proc/sys/net/ipv4/ip_forward)" = 0 ] || { echo 'forwarding is on' && status=1; }
  return $status
}

# Of the outside only the mirror answers.
cat $job/hosts >>/etc/hosts
for path in /sys/class/net/*/device; do
  link=$(basename "$(dirname "$path")")
  ip address add 10.0.2.15/24 dev "$link" && ip link set "$link" up
done
# The machine is emulated, and its guests in turn: what is short on a real one takes minutes.
mkdir -p /run/systemd/system/sandboxd.service.d
cat >/run/systemd/system/sandboxd.service.d/emulated.conf <<END
[Service]
Environment=SANDBOXD_PROBE_TIMEOUT_S=600 SANDBOXD_BOOT_TIMEOUT_S=600 SANDBOXD_WATCHDOG_TIMEOUT_S=600
TimeoutStartSec=1800
WatchdogSec=8min
END
old=$(cat $job/old)
new=$(cat $job/new)
step 'no compiler is here' bash -c '! command -v gcc && ! command -v cc'
step 'installs' install_package $job/old.deb
step 'is served, with the version of the package' is_served "$old"
step 'starts at boot' systemctl is-enabled sandboxd
step 'has said that it is ready, and is watched' watched
step 'listens on loopback alone' on_loopback_alone
step 'has no more rights than it needs' is_hardened
step 'doctor finds no fault' doctor
step 'a sandbox with a network starts under the unit, its profile baked on demand' create
step 'its commands run' answers
step 'its VMM is in the delegated control group' in_group
step 'what it may take is bounded there' is_bounded
step 'and the kernel holds to such bounds' is_enforced
step 'its network is on the host, kept by a mount' has_network
step 'a restart adopts it' restart
step 'its network is still there' has_network
step 'so does the end by SIGKILL' crash
step 'and so does a daemon that stands still' stands_still
step 'upgrades' install_package $job/new.deb
step 'the new version is served' is_served "$new"
step 'the sandbox was adopted' remembers
step 'a downgrade is refused, and changes nothing' downgrade
step 'a removal keeps data and sandboxes' remove
step 'installs again' install_package $job/new.deb
step 'and adopts what ran on' remembers
step 'purges' purge
step 'nothing is left' nothing_left
echo "1..$number"
exit "$failed"
