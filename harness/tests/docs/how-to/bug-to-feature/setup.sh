# A cluster with a workload `training` in namespace `team-a`.
command -v kubectl > /dev/null || return 0
schedlab up --kubeconfig kc > up.log &
wait_for_line up.log
export KUBECONFIG=$PWD/kc
kubectl apply -f fixtures/lab/queues.yaml
kubectl create namespace team-a
kubectl apply -f - <<'END'
apiVersion: batch/v1
kind: Job
metadata: {name: training, namespace: team-a}
spec:
  template:
    metadata: {labels: {kai.scheduler/queue: team-research}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers: [{name: main, image: cuda, resources: {limits: {nvidia.com/gpu: 9}}}]
END
kubectl wait -n team-a pod -l job-name=training --for=create --timeout=60s
