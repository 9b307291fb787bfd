// Package election elects one leader among the replicas of a service by a Lease of
// coordination.k8s.io, by the rules of client-go's tools/leaderelection: who sees that the
// lease has not been renewed for its duration, on its own clock, takes it; a leader that cannot
// renew in time stops leading before another can start.
//
// The lease says who should lead, it does not fence what a paused leader has already sent:
// writes of a leader must be conditional, as API updates are. A new leader can wait, however,
// until its caches show all that the one before wrote while it held the lease (Config.CatchUp),
// so that it does not do again what was done.
package election
