# Tries to gain rights with what a system has for that: unshare, mount, su, set-user-id programs.
found=""
attempt() { local what="$1"; shift; if "$@" >/dev/null 2>&1 < /dev/null; then found+=" $what"; fi; }
attempt "user-namespace" unshare --user --map-root-user true
attempt "mount-namespace" unshare --mount true
attempt "mount" mount -t tmpfs none /mnt
attempt "remount" mount -o remount,rw /usr
attempt "unmount" umount -l /proc
attempt "chroot" chroot / true
attempt "su" su -c true
attempt "sudo" sudo -n true
attempt "hostname" hostname probe
attempt "priority" renice -n -5 $$
if [ "$(id -u)" = 0 ]; then found+=" root"; fi
if [ -n "$found" ]; then echo "exposed:$found"; else echo contained; fi
