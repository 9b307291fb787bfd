// Package election elects one leader among the replicas of a service by a Lease of
// coordination.k8s.io, with the rules of client-go's tools/leaderelection. A candidate takes the
// lease when, by its own clock, the lease has not been renewed for its duration. A leader that
// cannot renew in time stops leading before another can start.
//
// Clocks only decide which replica should lead. A leader that was paused, or whose clock is wrong,
// may notice late that another leads. Writes that it sends until then, or has in flight, are
// refused, since they carry the fence of its term (package fence). A new leader can wait until its
// caches show every write that its predecessor made while it held the lease (Config.CatchUp), so
// that it does not repeat work.
//
// A process may be a candidate for several leases, each with its own fence.
package election
