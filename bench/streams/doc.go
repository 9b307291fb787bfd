// Package streams measures sessions of pods through Garboard, beside the same sessions of the container runtime's own
// server, which is what a kubelet connects its clients to: `make bench-streams`.
package streams
