package defaults

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	replicas         = 1
	revisionHistory  = 10
	progressDeadline = 600
	surge            = "25%"
)

// Deployment sets the defaults of a deployment.
func Deployment(d *appsv1.Deployment) {
	PodTemplate(&d.Spec.Template)
	set(&d.Spec.Replicas, int32(replicas))
	set(&d.Spec.RevisionHistoryLimit, int32(revisionHistory))
	set(&d.Spec.ProgressDeadlineSeconds, int32(progressDeadline))
	setString(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return
	}
	if d.Spec.Strategy.RollingUpdate == nil {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
	}
	set(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString(surge))
	set(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString(surge))
}

// ReplicaSet sets the defaults of a replica set.
func ReplicaSet(rs *appsv1.ReplicaSet) {
	PodTemplate(&rs.Spec.Template)
	set(&rs.Spec.Replicas, int32(replicas))
}

// Secret sets the defaults of a secret, and moves the write-only stringData into data.
func Secret(s *corev1.Secret) {
	setString(&s.Type, corev1.SecretTypeOpaque)
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

// Namespace sets the defaults of a namespace, and labels it with its name.
func Namespace(n *corev1.Namespace) {
	setString(&n.Status.Phase, corev1.NamespaceActive)
	if n.Name == "" || n.Labels[corev1.LabelMetadataName] == n.Name {
		return
	}
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = n.Name
	n.Labels = labels
}

// Node sets the defaults of a node: allocatable defaults to the capacity, and the first pod range
// is in both fields for ranges.
func Node(n *corev1.Node) {
	switch s := &n.Spec; {
	case s.PodCIDR == "" && len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	case s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR):
		s.PodCIDRs = []string{s.PodCIDR}
	}
	roundUp(n.Status.Capacity)
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	roundUp(n.Status.Allocatable)
}
