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

install_package() { dpkg --install "$1"; }
is_served() { systemctl is-active sandboxd && [ "$(version)" = "$1" ]; }
version() { sandboxd --version | cut -d ' ' -f 2; }
bake() {
  mkdir -p /var/lib/sandboxd && cp -a $job/profiles /var/lib/sandboxd/ && while read -r seconds path; do
    touch -d "@$seconds" "/var/lib/sandboxd/$path"
  done <$job/times
}
create() { id=$(sandbox run -p 8080:80 base) && [ -n "$id" ] && echo "$id" >/tmp/id; }
answers() { [ "$(sandbox exec "$(cat /tmp/id)" sh -c 'cat /tmp/mark 2>/dev/null || echo first >/tmp/mark; hostname')" != '' ]; }
remembers() { sandbox exec "$(cat /tmp/id)" cat /tmp/mark | grep -q first; }
in_group() { cat /sys/fs/cgroup/sandboxd.slice/sandboxd-vmms.service/vmm-*/cgroup.procs | grep -q .; }
has_network() { nft list tables | grep -q sandboxd_ && ls /run/sandboxd/net/* && grep -q ' /run/sandboxd/net/' /proc/mounts; }
doctor() {
  sandboxd doctor --quick
  [ $? -lt 2 ]
}
restart() { systemctl restart sandboxd && remembers; }
crash() {
  pid=$(systemctl show -P MainPID sandboxd)
  kill -KILL "$pid"
  for _ in $(seq 300); do
    now=$(systemctl show -P MainPID sandboxd)
    [ "$now" != 0 ] && [ "$now" != "$pid" ] && systemctl is-active sandboxd && break
    sleep 1
  done
  remembers
}
watched() { systemctl show sandboxd -P WatchdogUSec | grep -q 2min && systemctl status sandboxd --no-pager | grep -q 'Status: "listening on'; }
downgrade() {
  dpkg --install $job/old.deb >/tmp/refusal 2>&1 && return 1
  cat /tmp/refusal
  grep -q 'refusing to replace version' /tmp/refusal && is_served "$(cat $job/new)" && remembers
}
remove() {
  dpkg --remove sandboxd >/tmp/removal 2>&1 || return 1
  cat /tmp/removal
  grep -q 'processes of sandboxes run on' /tmp/removal && ! systemctl is-active sandboxd && [ -d /var/lib/sandboxd/profiles/base ] && in_group
}
purge() { dpkg --purge sandboxd; }
nothing_left() {
  status=0
  for path in /var/lib/sandboxd /run/sandboxd /run/sandboxd-uids /etc/sandboxd /etc/systemd/system/multi-user.target.wants/sandboxd.service; do
    [ ! -e "$path" ] || { echo "there: $path" && status=1; }
  done
  find /sys/fs/cgroup -name 'vmm-*' | grep . && status=1
  nft list tables | grep sandboxd_ && status=1
  grep sbx /proc/net/dev && status=1
  grep sandboxd /proc/mounts && status=1
  pgrep -a 'qemu|sandboxd' && status=1
  [ "$(cat /proc/sys/net/ipv4/ip_forward)" = 0 ] || { echo 'forwarding is on' && status=1; }
  return $status
}

old=$(cat $job/old)
new=$(cat $job/new)
step 'no compiler is here' bash -c '! command -v gcc && ! command -v cc'
step 'installs' install_package $job/old.deb
step 'is served, with the version of the package' is_served "$old"
step 'starts at boot' systemctl is-enabled sandboxd
step 'has said that it is ready, and is watched' watched
step 'takes what is baked' bake
step 'doctor finds no fault' doctor
step 'a sandbox with a network starts under the unit' create
step 'its commands run' answers
step 'its VMM is in the delegated control group' in_group
step 'its network is on the host, kept by a mount' has_network
step 'a restart adopts it' restart
step 'its network is still there' has_network
step 'so does the end by SIGKILL' crash
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
