# Looks for the platform's own variables in the environment and command line of every process it can see.
wanted='^(DATABASE_URL|DATABASE_DIRECT_URL|PGPASSWORD|SECRET_KEY|ENCRYPTION_KEY|SUPERADMIN_SECRET|LICENSE_KEY|AWS_SECRET_ACCESS_KEY)='
for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do
    if { tr '\0' '\n' < "$file"; } 2>/dev/null | grep -qE "$wanted"; then
        echo "exposed: $file"
        exit
    fi
done
echo contained
