// Package networking defines the kinds of networking.k8s.io: Ingresses and their classes, NetworkPolicies, and the
// addresses of services.
package networking
