package clientgo

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// fieldsOf returns the selectable fields of an object that the adapter supports, the same for each
// object of a kind. Requests that select by other fields go to the apiserver.
func fieldsOf(kind *scheme.Kind, obj informer.Object) fields.Set {
	set := fields.Set{}
	switch obj := obj.(type) {
	case *corev1.Pod:
		ip := obj.Status.PodIP
		if ip == "" && len(obj.Status.PodIPs) > 0 {
			ip = obj.Status.PodIPs[0].IP
		}
		set = fields.Set{
			nodeNameField: obj.Spec.NodeName, "spec.restartPolicy": string(obj.Spec.RestartPolicy),
			"spec.schedulerName": obj.Spec.SchedulerName, "spec.serviceAccountName": obj.Spec.ServiceAccountName,
			"spec.hostNetwork": strconv.FormatBool(obj.Spec.HostNetwork), "status.phase": string(obj.Status.Phase),
			"status.podIP": ip, "status.nominatedNodeName": obj.Status.NominatedNodeName,
		}
	case *corev1.Event:
		set = fields.Set{
			"involvedObject.kind": obj.InvolvedObject.Kind, "involvedObject.namespace": obj.InvolvedObject.Namespace,
			"involvedObject.name": obj.InvolvedObject.Name, "involvedObject.uid": string(obj.InvolvedObject.UID),
			"reason": obj.Reason, "type": obj.Type,
		}
	case *corev1.Namespace:
		set = fields.Set{"status.phase": string(obj.Status.Phase)}
	case *corev1.Node:
		set = fields.Set{"spec.unschedulable": strconv.FormatBool(obj.Spec.Unschedulable)}
	case *corev1.Secret:
		set = fields.Set{"type": string(obj.Type)}
	}
	set["metadata.name"] = obj.GetName()
	if kind.Namespaced {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	return set
}
