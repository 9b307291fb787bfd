package statefulset

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ordinalOf returns the number at the end of a pod's name; false unless the name is that of the pod of a
// set with that ordinal. "web-007" is no such name: another pod could have the place.
func ordinalOf(set *appsv1.StatefulSet, pod *corev1.Pod) (int, bool) {
	digits, found := strings.CutPrefix(pod.Name, set.Name+"-")
	if !found {
		return 0, false
	}
	ordinal, err := strconv.ParseInt(digits, 10, 32)
	return int(ordinal), err == nil && ordinal >= 0 && strconv.FormatInt(ordinal, 10) == digits
}

func podName(set *appsv1.StatefulSet, ordinal int) string {
	return set.Name + "-" + strconv.Itoa(ordinal)
}

func claimName(template, set string, ordinal int) string {
	return template + "-" + set + "-" + strconv.Itoa(ordinal)
}

// replicas returns how many pods a set asks for; 1 when it does not say (the apiserver's default).
func replicas(set *appsv1.StatefulSet) int {
	if set.Spec.Replicas == nil {
		return 1
	}
	return int(*set.Spec.Replicas)
}

// start returns the first ordinal, and end the one after the last.
func start(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

func end(set *appsv1.StatefulSet) int { return start(set) + replicas(set) }

func inRange(set *appsv1.StatefulSet, ordinal int) bool {
	return start(set) <= ordinal && ordinal < end(set)
}

// revisionOf returns the name of the revision from which a pod was made.
func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.StatefulSetRevisionLabel] }

// newPod builds the pod with an ordinal from a template of the set.
func newPod(set *appsv1.StatefulSet, owner metav1.OwnerReference, template *corev1.PodTemplateSpec, revision string,
	ordinal int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: set.Name + "-", Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations),
			Finalizers: slices.Clone(template.Finalizers), OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	identify(set, pod, ordinal)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
	mount(set, pod, ordinal)
	return pod
}

// identify gives a pod the name and the labels of its ordinal.
func identify(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) {
	pod.Namespace, pod.Name = set.Namespace, podName(set, ordinal)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinal)
}

func identified(pod *corev1.Pod) bool { return pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name }

// mount gives a pod the volumes of its claims, in place of others with their names.
func mount(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) {
	templates := set.Spec.VolumeClaimTemplates
	volumes := make([]corev1.Volume, 0, len(templates)+len(pod.Spec.Volumes))
	for i := range templates {
		volumes = append(volumes, corev1.Volume{Name: templates[i].Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(templates[i].Name, set.Name, ordinal)},
		}})
	}
	for _, volume := range pod.Spec.Volumes {
		if !slices.ContainsFunc(templates, func(c corev1.PersistentVolumeClaim) bool { return c.Name == volume.Name }) {
			volumes = append(volumes, volume)
		}
	}
	pod.Spec.Volumes = volumes
}

// mounted reports whether a pod has the volumes of its claims.
func mounted(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		template := set.Spec.VolumeClaimTemplates[i].Name
		claim := claimName(template, set.Name, ordinal)
		has := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == template && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
		})
		if !has {
			return false
		}
	}
	return true
}
