#!/usr/bin/env python3
"""A scheduler in 50 lines: pods by priority and age, gangs whole, on the first node with room.

usage: scheduler.py KUBECONFIG SCHEDULER_NAME
"""
import json, re, sys, time, urllib.error, urllib.request

SERVER = re.search(r"server: (\S+)", open(sys.argv[1]).read())[1]
UNITS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
         "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

def call(path, body=None):
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(SERVER + path, data, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))

def amounts(quantities):
    parts = {key: re.fullmatch(r"([0-9.]+)(\D*)", text) for key, text in quantities.items()}
    return {key: float(part[1]) * UNITS[part[2]] for key, part in parts.items()}

def requests(pod):
    total = {"pods": 1}
    for container in pod["spec"]["containers"]:
        for key, value in amounts(container.get("resources", {}).get("requests", {})).items():
            total[key] = total.get(key, 0) + value
    return total

def take(free, node, pod):
    free[node].update({key: free[node][key] - value for key, value in requests(pod).items()})

def find_node(free, pod):
    needs = requests(pod).items()
    fits = (node for node, left in free.items() if all(left.get(k, 0) >= v for k, v in needs))
    node = next(fits, None)
    if node:
        take(free, node, pod)
    return node

def run_cycle():
    free = {node["metadata"]["name"]: amounts(node["status"]["allocatable"])
            for node in call("/api/v1/nodes")["items"] if not node["spec"].get("unschedulable")}
    groups = call("/apis/scheduling.k8s.io/v1beta1/podgroups")["items"]
    minimum = {group["metadata"]["name"]:
               group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 1) for group in groups}
    gangs, placed = {}, {}
    for pod in call("/api/v1/pods")["items"]:
        spec = pod["spec"]
        gang = spec.get("schedulingGroup", {}).get("podGroupName", pod["metadata"]["uid"])
        if spec.get("nodeName"):
            placed[gang] = placed.get(gang, 0) + 1
            if pod["status"]["phase"] in ("Pending", "Running") and spec["nodeName"] in free:
                take(free, spec["nodeName"], pod)
        elif spec["schedulerName"] == sys.argv[2] and not spec.get("schedulingGates"):
            gangs.setdefault(gang, []).append(pod)
    rank = lambda pods: (-pods[0]["spec"].get("priority", 0), pods[0]["metadata"]["creationTimestamp"])
    for gang, pods in sorted(gangs.items(), key=lambda item: rank(item[1])):
        trial = {node: dict(left) for node, left in free.items()}
        found = [(pod["metadata"], find_node(trial, pod)) for pod in pods]
        found = [(pod, node) for pod, node in found if node]
        if len(found) + placed.get(gang, 0) >= minimum.get(gang, 1):
            free = trial
            for pod, node in found:
                call(f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/binding",
                     {"metadata": {"name": pod["name"]}, "target": {"kind": "Node", "name": node}})

while True:
    try:
        run_cycle()
    except urllib.error.HTTPError as error:
        print(error.read().decode(), file=sys.stderr, flush=True)
    time.sleep(0.2)
