#!/usr/bin/env bash
# Runs a command, and all that it starts, with a third of the processors. The groups that local
# hosts make are below its own: it sees that as the root.
#
#   slow.sh COMMAND [ARGUMENT...]
set -euo pipefail
quota=$(($(nproc) * 100000 / 3)) root=/sys/fs/cgroup
if [ -e $root/cgroup.controllers ]; then
  echo +cpu >$root/cgroup.subtree_control
  group=$root/slipway-slow-$$ type=cgroup2 options=nsdelegate
  mkdir "$group" "$group/run"
  echo "$quota 100000" >"$group/cpu.max"
else
  root+=/cpu
  group=$root/slipway-slow-$$ type=cgroup options=cpu
  mkdir "$group"
  echo $quota >"$group/cpu.cfs_quota_us"
fi
trap 'echo $$ >$root/cgroup.procs && find "$group" -depth -type d -exec rmdir {} +' EXIT
echo $$ >"$group/cgroup.procs"
# shellcheck disable=SC2016 # for the shell inside
unshare --cgroup --mount bash -euc '
  root=$1 type=$2 options=$3
  shift 3
  umount "$root" && mount -t "$type" -o "$options" cgroup "$root"
  if [ -e "$root/run" ]; then echo 0 >"$root/run/cgroup.procs"; fi
  exec "$@"' slow.sh "$root" "$type" "$options" "$@"
