package daemonset

import (
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// requirements are what the pods of a DaemonSet require of a node.
type requirements struct {
	nodeName    string
	tolerations []corev1.Toleration
	affinity    nodeaffinity.RequiredNodeAffinity
}

func requirementsOf(ds *appsv1.DaemonSet) requirements {
	spec := ds.Spec.Template.Spec
	return requirements{
		nodeName: spec.NodeName, tolerations: tolerationsOf(&spec),
		affinity: nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity),
	}
}

// decide reports whether a node should get a pod, and whether one that is there may stay.
func (r *requirements) decide(node *corev1.Node) (run, stay bool) {
	if r.nodeName != "" && r.nodeName != node.Name {
		return false, false
	}
	// A term that cannot be parsed matches nothing; its error would be the same for every node.
	if fits, _ := r.affinity.Match(node); !fits {
		return false, false
	}
	if !r.untolerated(node, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule) {
		return true, true
	}
	return false, !r.untolerated(node, corev1.TaintEffectNoExecute)
}

func (r *requirements) untolerated(node *corev1.Node, effects ...corev1.TaintEffect) bool {
	_, found := scheduling.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, r.tolerations,
		func(taint *corev1.Taint) bool { return slices.Contains(effects, taint.Effect) }, false)
	return found
}

// tolerationsOf returns the tolerations of a template and those that every daemon pod has: neither the
// state of its node nor a drain of it sends a daemon away.
func tolerationsOf(spec *corev1.PodSpec) []corev1.Toleration {
	tolerations := slices.Clone(spec.Tolerations)
	exists := func(key string, effect corev1.TaintEffect) {
		added := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		i := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool { return t.MatchToleration(&added) })
		switch {
		case i < 0:
			tolerations = append(tolerations, added)
		case !equality.Semantic.DeepEqual(tolerations[i], added):
			tolerations[i] = added // Without an end.
		}
	}
	exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return tolerations
}

// aimAt makes a pod one for a node: the scheduler places it there and nowhere else.
func aimAt(spec *corev1.PodSpec, node string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}
}

// nodeOf returns the node that a pod is on or is made for; false if it is for none in particular.
func nodeOf(pod *corev1.Pod) (string, bool) {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName, true
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return "", false
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key != metav1.ObjectNameField || field.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if len(field.Values) != 1 {
				return "", false
			}
			return field.Values[0], true
		}
	}
	return "", false
}
