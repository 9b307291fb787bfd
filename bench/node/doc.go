// Package node runs a node and its plane for benchmarks, in namespaces of their own: etcd, NATS, an apiserver,
// containerd, and the programs to measure. The namespaces and everything in them end with the benchmark, whatever
// ends it. It needs root, Linux, containerd and ip.
package node
