package admission

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pullImages makes every container pull its image each time, so that only users who may pull an
// image can use it once it is on a node.
func pullImages(_ context.Context, req *Request) error {
	pod, ok := pulling(req)
	if !ok {
		return nil
	}
	for _, c := range containersOf(&pod.Spec) {
		c.ImagePullPolicy = corev1.PullAlways
	}
	for i := range pod.Spec.EphemeralContainers { // containersOf returns copies of these.
		pod.Spec.EphemeralContainers[i].ImagePullPolicy = corev1.PullAlways
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Image != nil {
			volume.Image.PullPolicy = corev1.PullAlways
		}
	}
	return nil
}

// checkPullImages refuses a pod whose pull policy a later plugin has changed back.
func checkPullImages(_ context.Context, req *Request) error {
	pod, ok := pulling(req)
	if !ok {
		return nil
	}
	spec := field.NewPath("spec")
	check := func(policy corev1.PullPolicy, path *field.Path) error {
		if policy == corev1.PullAlways {
			return nil
		}
		return forbidden(req, field.NotSupported(path, policy, []corev1.PullPolicy{corev1.PullAlways}))
	}
	paths := map[string]*field.Path{
		"init container": spec.Child("initContainers"), "container": spec.Child("containers"), "ephemeral container": spec.Child("ephemeralContainers"),
	}
	seen := map[string]int{}
	for _, c := range containersOf(&pod.Spec) {
		path := paths[c.sort].Index(seen[c.sort])
		seen[c.sort]++
		if err := check(c.ImagePullPolicy, path.Child("imagePullPolicy")); err != nil {
			return err
		}
	}
	for i, volume := range pod.Spec.Volumes {
		if volume.Image == nil {
			continue
		}
		if err := check(volume.Image.PullPolicy, spec.Child("volumes").Index(i).Child("image", "pullPolicy")); err != nil {
			return err
		}
	}
	return nil
}

// pulling returns the pod of a request that brings new images, and whether there is one.
func pulling(req *Request) (*corev1.Pod, bool) {
	pod, ok := req.Object.(*corev1.Pod)
	if !ok || req.Subresource != "" && req.Subresource != "ephemeralcontainers" {
		return nil, false
	}
	old, ok := req.Old.(*corev1.Pod)
	if !ok || req.Verb != Update {
		return pod, req.Verb != Delete
	}
	var had []string
	for _, c := range containersOf(&old.Spec) {
		had = append(had, c.Image)
	}
	brings := slices.ContainsFunc(containersOf(&pod.Spec), func(c container) bool { return !slices.Contains(had, c.Image) })
	return pod, brings
}
