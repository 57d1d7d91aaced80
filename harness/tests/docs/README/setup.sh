# A feature that passes, and a capture of a cluster.
grep --invert-match "match its snapshot\|match their snapshot\|matches its snapshot" features/reclaim/owner-returns.feature > bug.feature
schedlab up --kubeconfig kc > up.log &
wait_for_line up.log
schedlab-scheduler snapshot --kubeconfig kc -o cluster.zip
kill $!
