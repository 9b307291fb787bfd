package placement

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Groups finds the objects that say which pods belong together. Pods without topology spread
// constraints are spread by them. Functions that find one object return nil if it does not exist.
// The objects are only read.
type Groups struct {
	// Services returns all Services of a namespace.
	Services              func(namespace string) []*corev1.Service
	ReplicationController func(namespace, name string) *corev1.ReplicationController
	ReplicaSet            func(namespace, name string) *appsv1.ReplicaSet
	StatefulSet           func(namespace, name string) *appsv1.StatefulSet
}

// selector selects the pods that belong together with pod: those of its Services and of its
// controller. It is empty if pod has neither (Kubernetes, plugins/helper.DefaultSelector).
func (g Groups) selector(pod *corev1.Pod) labels.Selector {
	if g.Services == nil {
		return labels.Everything()
	}
	wanted := labels.Set{}
	for _, service := range g.Services(pod.Namespace) {
		if own := service.Spec.Selector; own != nil && labels.SelectorFromValidatedSet(own).Matches(labels.Set(pod.Labels)) {
			maps.Copy(wanted, own)
		}
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return labels.SelectorFromValidatedSet(wanted)
	}
	var sets *metav1.LabelSelector
	switch owner.APIVersion + " " + owner.Kind {
	case "v1 ReplicationController":
		if controller := g.ReplicationController(pod.Namespace, owner.Name); controller != nil {
			maps.Copy(wanted, controller.Spec.Selector)
		}
	case "apps/v1 ReplicaSet":
		if set := g.ReplicaSet(pod.Namespace, owner.Name); set != nil {
			sets = set.Spec.Selector
		}
	case "apps/v1 StatefulSet":
		if set := g.StatefulSet(pod.Namespace, owner.Name); set != nil {
			sets = set.Spec.Selector
		}
	}
	selector := labels.SelectorFromValidatedSet(wanted)
	if sets == nil {
		return selector
	}
	own, err := metav1.LabelSelectorAsSelector(sets)
	if err != nil {
		return selector // Validation refuses such a selector.
	}
	requirements, _ := own.Requirements()
	return selector.Add(requirements...)
}
