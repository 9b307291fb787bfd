// Package healthcheck tells load balancers whether to send traffic to the node. Every Service with
// external traffic policy Local has a health-check node port, which answers 200 while the node has
// ready endpoints of the Service. The proxy itself answers at /healthz, which also fails on a node
// that is to be deleted, and at /livez. Paths, headers and bodies are kube-proxy's.
package healthcheck
