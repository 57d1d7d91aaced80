#!/usr/bin/env python3
"""A scheduler in 50 lines: pods by priority and age, gangs whole, on the first node with room.

usage: scheduler.py KUBECONFIG SCHEDULER_NAME
"""
import json, re, sys, time, urllib.error, urllib.request

SERVER = re.search(r"server: (\S+)", open(sys.argv[1]).read())[1]
UNITS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}

def call(path, body=None):
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(SERVER + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)

def amounts(quantities):
    parts = {key: re.fullmatch(r"([0-9.]+)(\D*)", text) for key, text in quantities.items()}
    return {key: float(part[1]) * UNITS[part[2]] for key, part in parts.items()}

def requests(pod):
    total = {"pods": 1}
    for container in pod["spec"]["containers"]:
        for key, value in amounts(container.get("resources", {}).get("requests", {})).items():
            total[key] = total.get(key, 0) + value
    return total

def take(free, pod):
    """The first node with room for a pod; what the pod requests is then no longer free."""
    needs = requests(pod).items()
    for node, left in free.items():
        if all(left.get(key, 0) >= value for key, value in needs):
            left.update({key: left[key] - value for key, value in needs})
            return node

def run_cycle():
    free = {node["metadata"]["name"]: amounts(node["status"]["allocatable"])
            for node in call("/api/v1/nodes")["items"] if not node["spec"].get("unschedulable")}
    minimum = {(group["metadata"]["namespace"], group["metadata"]["name"]):
               group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 1)
               for group in call("/apis/scheduling.k8s.io/v1beta1/podgroups")["items"]}
    gangs, placed = {}, {}
    for pod in call("/api/v1/pods")["items"]:
        meta, spec = pod["metadata"], pod["spec"]
        gang = (meta["namespace"], spec.get("schedulingGroup", {}).get("podGroupName", meta["uid"]))
        if spec.get("nodeName"):
            placed[gang] = placed.get(gang, 0) + 1
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                left = free.get(spec["nodeName"], {})
                left.update({key: left.get(key, 0) - value for key, value in requests(pod).items()})
        elif spec.get("schedulerName") == sys.argv[2] and "schedulingGates" not in spec:
            gangs.setdefault(gang, []).append(pod)
    age = lambda pods: (-pods[0]["spec"].get("priority", 0), pods[0]["metadata"]["creationTimestamp"])
    for gang, pods in sorted(gangs.items(), key=lambda item: age(item[1])):
        before = {node: dict(left) for node, left in free.items()}
        nodes = [(pod["metadata"], take(free, pod)) for pod in pods]
        found = [(meta, node) for meta, node in nodes if node]
        if len(found) + placed.get(gang, 0) < minimum.get(gang, 1):
            free = before
            continue
        for meta, node in found:
            call(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding",
                 {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]},
                  "target": {"apiVersion": "v1", "kind": "Node", "name": node}})

while True:
    try:
        run_cycle()
    except urllib.error.HTTPError as error:
        print(error.read().decode(), file=sys.stderr, flush=True)
    time.sleep(0.2)
