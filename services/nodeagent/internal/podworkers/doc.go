// Package podworkers gives every pod a goroutine of its own, which brings the pod one step at
// a time towards what is wanted of it.
//
// A pod is synced until it is to end (deleted, evicted, finished by itself), then terminated
// until none of its containers runs, then cleaned up; it never goes back. While a step is
// going on, only the last of the updates that arrive is kept, but that the pod has to end is
// never forgotten or overwritten. A step sees the runtime as it was after the step before:
// it waits until the cache of the runtime's state is newer.
package podworkers
