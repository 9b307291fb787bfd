// Package podactions decides, from what is wanted of a pod and what runs, what has to be done
// next. It does nothing itself and depends on nothing else, so that every case is a row of a
// table test (Kubernetes, kuberuntime's computePodActions).
package podactions
