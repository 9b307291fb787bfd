package conformance

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// Ours returns the scheduler's answer to a case.
func Ours(c *Case) Answer {
	verdicts, failure := placement.Explain(c.Pod, cluster(c))
	answer := Answer{Nodes: map[string]Verdict{}}
	if failure != nil {
		answer.Message = failure.Error()
		// After a reason that lies in the pod, kube-scheduler's message ends with an internal error.
		if failure.Whole() || !c.Comparable() {
			answer.Message, _, _ = strings.Cut(answer.Message, preemption)
		}
	}
	for _, v := range verdicts {
		verdict := Verdict{Filter: string(v.Filter), Reasons: slices.Clone(v.Reasons), Final: v.Final, Total: v.Total}
		if failure != nil && failure.Whole() {
			verdict.Filter = "" // Events decide when such a pod is retried, not this name.
		}
		slices.Sort(verdict.Reasons)
		for plugin, score := range v.Scores {
			verdict.Score(plugin, score)
		}
		answer.Nodes[v.Node.Name] = verdict
	}
	return answer
}

// Score sets a plugin's score.
func (v *Verdict) Score(plugin string, score int64) {
	if score == 0 {
		return
	}
	if v.Scores == nil {
		v.Scores = map[string]int64{}
	}
	v.Scores[plugin] = score
}

// cluster returns what placement looks at.
func cluster(c *Case) placement.Cluster {
	cache := clusterview.NewCache()
	for _, node := range c.Nodes {
		cache.SetNode(node)
	}
	for _, pod := range c.Pods {
		cache.SetPod(pod)
	}
	return placement.Cluster{
		Nodes: cache.Snapshot(),
		NamespaceLabels: func(name string) labels.Set {
			if namespace := named(c.Namespaces, "", name); namespace != nil {
				return namespace.Labels
			}
			return nil
		},
		Groups: placement.Groups{
			Services: func(namespace string) []*corev1.Service {
				return slices.DeleteFunc(slices.Clone(c.Services), func(s *corev1.Service) bool { return s.Namespace != namespace })
			},
			ReplicationController: func(namespace, name string) *corev1.ReplicationController {
				return named(c.ReplicationControllers, namespace, name)
			},
			ReplicaSet:  func(namespace, name string) *appsv1.ReplicaSet { return named(c.ReplicaSets, namespace, name) },
			StatefulSet: func(namespace, name string) *appsv1.StatefulSet { return named(c.StatefulSets, namespace, name) },
		},
		Storage: placement.Storage{
			Claim:  func(namespace, name string) *corev1.PersistentVolumeClaim { return named(c.Claims, namespace, name) },
			Volume: func(name string) *corev1.PersistentVolume { return named(c.Volumes, "", name) },
			Class:  func(name string) *storagev1.StorageClass { return named(c.Classes, "", name) },
			Volumes: func(class string) []*corev1.PersistentVolume {
				return slices.DeleteFunc(slices.Clone(c.Volumes), func(v *corev1.PersistentVolume) bool { return v.Spec.StorageClassName != class })
			},
			Driver: func(name string) *storagev1.CSIDriver { return named(c.Drivers, "", name) },
			Capacities: func(class string) []*storagev1.CSIStorageCapacity {
				return slices.DeleteFunc(slices.Clone(c.Capacities), func(s *storagev1.CSIStorageCapacity) bool { return s.StorageClassName != class })
			},
		},
	}
}

// named returns an object by its name; nil if there is none.
func named[T metav1.Object](objects []T, namespace, name string) T {
	for _, obj := range objects {
		if obj.GetNamespace() == namespace && obj.GetName() == name {
			return obj
		}
	}
	var none T
	return none
}
