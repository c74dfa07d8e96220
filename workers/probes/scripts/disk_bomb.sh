# limits: disk=32MB memory=256MB
# Fills the disk.
if head -c 8G /dev/zero > bomb; then echo exposed; else echo "contained: refused after $(stat -c %s bomb) bytes"; fi
