// Package forward answers questions about names outside the cluster's zone. It asks the servers of
// the node's resolver configuration, or those of a stub domain, and keeps their answers.
//
// An answer is kept for its time to live, and a negative one as its SOA record says (RFC 2308).
// Popular answers are renewed shortly before they expire. While no server answers, expired ones are
// served for up to an hour (RFC 8767). Equal questions that come at the same time are asked once.
//
// Each question goes out from a port and with an ID that the kernel and its random numbers choose,
// and only an answer to exactly that question counts.
package forward
