// Package node makes the machine a Node of the API: it registers it, reports what it has and
// how it is, and renews its Lease, by whose age others tell whether it lives.
package node
