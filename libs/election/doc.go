// Package election elects one leader among the replicas of a service by a Lease of
// coordination.k8s.io, by the rules of client-go's tools/leaderelection: who sees that the
// lease has not been renewed for its duration, on its own clock, takes it; a leader that cannot
// renew in time stops leading before another can start.
//
// Clocks decide who should lead, and no more. A leader that was paused, or whose clock goes wrong,
// may find out late that another leads; what it writes until then, or has on its way, is refused,
// since it carries the fence of its term (package fence). A new leader, for its part, can wait
// until its caches show all that the one before wrote while it held the lease (Config.CatchUp),
// so that it does not do again what was done.
//
// Nothing is tied to one lease for a service: a process may be a candidate for several, each with
// its own fence.
package election
