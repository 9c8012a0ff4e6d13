#!/bin/sh
# Make this process the first one of a host, then sleep. Runs inside new network, mount, UTS, IPC
# and PID namespaces: when it is killed the kernel ends everything on the host, containers
# included, and takes its mounts away. Arguments: name, directory of the host, cache, state.
set -eu
name=$1 home=$2 cache=$3 state=$4

# Nothing mounted from here on may reach the machine below.
mount --make-rprivate /

# The host sees the machine's files, and what it writes is its own.
mount -t overlay overlay -o "lowerdir=/,upperdir=$home/upper,workdir=$home/work" "$home/root"
cd "$home/root"

# A /sys of its own shows its own interfaces; the cgroups are the machine's, which dockerd needs.
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
# Containers with --ipc host share this directory: hosts that share it could pass tensors there.
mount -t tmpfs tmpfs dev/shm
mount -t tmpfs -o mode=1777 tmpfs tmp
mount --bind "$home/run" run
mkdir -p var/lib/docker
mount --bind "$home/docker" var/lib/docker
# An overlay shows one file system, and the cache may be on another.
mkdir -p "./$cache"
mount --rbind "$cache" "./$cache"
# Other hosts' keys and sockets are none of this one's business.
mount -t tmpfs tmpfs "./$state"

hostname "$name"
mkdir -p .machine
pivot_root . .machine
umount -l /.machine
rmdir /.machine
cd /
ip link set lo up
touch /run/booted
exec tini-static -- sleep infinity
