// Package podactions decides what to do next for a pod from its wanted state and what runs. It
// performs nothing itself and depends on nothing else, so every case is a row of a table test
// (Kubernetes, kuberuntime's computePodActions).
package podactions
