// Package podworkers runs one goroutine for each pod, which moves the pod step by step towards its
// wanted state.
//
// A pod is synced until it has to end (deleted, evicted, completed), then terminated until none of
// its containers runs, then cleaned up; it never goes back. While a step runs, only the latest of
// the arriving updates is kept, but the fact that the pod has to end is never lost. Each step sees
// the state of the runtime after the previous step: it waits until the cache of that state is
// newer.
package podworkers
