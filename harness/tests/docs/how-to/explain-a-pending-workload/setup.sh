# A cluster with a Deployment above the quota of its queue.
command -v kubectl > /dev/null || return 0
schedlab up --kubeconfig kc > up.log &
wait_for_line up.log
export KUBECONFIG=$PWD/kc
kubectl apply -f fixtures/lab/queues.yaml -f fixtures/lab/original/exercise-b-borrow.yaml
kubectl wait -n kai-demo deploy/prod-borrow --for=jsonpath='{.status.readyReplicas}'=8 --timeout=60s
kubectl wait -n kai-demo podgroup --all --for=create --timeout=60s
until kubectl get events -n kai-demo | grep --quiet Unschedulable; do sleep 0.1; done
