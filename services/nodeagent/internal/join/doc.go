// Package join gives a node agent its identity: it asks the plane for a client certificate with a
// bootstrap token, keeps it in a file, has it replaced before it ends, and asks for a new one by
// the token again when it is lost, has ended, or is not taken any more (kubernetes,
// pkg/kubelet/certificate). What keeps it from that is told in one sentence each, in the log and
// by Ready.
package join
