// Package alwayspullimages is the plugin AlwaysPullImages.
package alwayspullimages

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin. It makes every container pull its image each time, so that only users
// who may pull an image can use it once it is on a node.
func Plugin() admission.Plugin {
	return admission.Plugin{Mutate: pullImages, Validate: checkPullImages}
}

func pullImages(_ context.Context, req *admission.Request) error {
	pod, ok := pulling(req)
	if !ok {
		return nil
	}
	for _, c := range containersOf(&pod.Spec) {
		*c.policy = corev1.PullAlways
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Image != nil {
			volume.Image.PullPolicy = corev1.PullAlways
		}
	}
	return nil
}

// checkPullImages refuses a pod whose pull policy a later plugin has changed back.
func checkPullImages(_ context.Context, req *admission.Request) error {
	pod, ok := pulling(req)
	if !ok {
		return nil
	}
	check := func(policy corev1.PullPolicy, path *field.Path) error {
		if policy == corev1.PullAlways {
			return nil
		}
		return admission.Forbidden(req, field.NotSupported(path, policy, []corev1.PullPolicy{corev1.PullAlways}))
	}
	for _, c := range containersOf(&pod.Spec) {
		if err := check(*c.policy, c.path.Child("imagePullPolicy")); err != nil {
			return err
		}
	}
	for i, volume := range pod.Spec.Volumes {
		if volume.Image == nil {
			continue
		}
		if err := check(volume.Image.PullPolicy, field.NewPath("spec", "volumes").Index(i).Child("image", "pullPolicy")); err != nil {
			return err
		}
	}
	return nil
}

// pulling returns the pod of a request that brings new images, and whether there is one.
func pulling(req *admission.Request) (*corev1.Pod, bool) {
	pod, ok := req.Object.(*corev1.Pod)
	if !ok || req.Subresource != "" && req.Subresource != "ephemeralcontainers" {
		return nil, false
	}
	old, ok := req.Old.(*corev1.Pod)
	if !ok || req.Verb != admission.Update {
		return pod, req.Verb != admission.Delete
	}
	var had []string
	for _, c := range containersOf(&old.Spec) {
		had = append(had, c.image)
	}
	brings := slices.ContainsFunc(containersOf(&pod.Spec), func(c container) bool { return !slices.Contains(had, c.image) })
	return pod, brings
}

// container is the image of one of a pod's containers, with its pull policy, which may be set.
type container struct {
	image  string
	policy *corev1.PullPolicy
	path   *field.Path
}

// containersOf returns all containers of a pod: init, ordinary and ephemeral.
func containersOf(spec *corev1.PodSpec) []container {
	path := field.NewPath("spec")
	var all []container
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		all = append(all, container{c.Image, &c.ImagePullPolicy, path.Child("initContainers").Index(i)})
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		all = append(all, container{c.Image, &c.ImagePullPolicy, path.Child("containers").Index(i)})
	}
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		all = append(all, container{c.Image, &c.ImagePullPolicy, path.Child("ephemeralContainers").Index(i)})
	}
	return all
}
