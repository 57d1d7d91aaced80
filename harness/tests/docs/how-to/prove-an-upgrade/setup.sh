# Two versions of the scheduler: here twice the same.
mkdir --parents bin/v1 bin/v2
ln --symbolic "$(command -v schedlab-scheduler)" bin/v1
ln --symbolic "$(command -v schedlab-scheduler)" bin/v2
