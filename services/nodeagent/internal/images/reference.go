package images

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

// Normalize returns the full form of an image name, which every registry and runtime understands:
// "nginx" is "docker.io/library/nginx:latest". A name with a tag and a digest keeps both; the
// digest decides.
func Normalize(image string) (string, error) {
	named, err := parse(image)
	if err != nil {
		return "", err
	}
	return reference.TagNameOnly(named).String(), nil
}

// defaultTag adds ":latest" to a name that has neither tag nor digest and leaves the rest as
// written, as Kubernetes does before it calls the runtime.
func defaultTag(image string) (string, error) {
	named, err := parse(image)
	if err != nil {
		return "", err
	}
	if reference.IsNameOnly(named) {
		return image + ":latest", nil
	}
	return image, nil
}

// defaultPolicy returns the pull policy of a container that specifies none: Always for the tag
// latest, written or implied, else IfNotPresent (core/v1, Container.imagePullPolicy).
func defaultPolicy(image string) corev1.PullPolicy {
	named, err := parse(image)
	if err != nil {
		return corev1.PullIfNotPresent
	}
	_, digested := named.(reference.Digested)
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok && tagged.Tag() == "latest" && !digested {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func parse(image string) (reference.Named, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, fmt.Errorf("couldn't parse image name %q: %w", image, err)
	}
	return named, nil
}

// repository returns the name of an image with its registry, without tag and digest:
// "docker.io/library/nginx".
func repository(image string) (string, error) {
	named, err := parse(image)
	if err != nil {
		return "", err
	}
	return strings.ToLower(reference.Domain(named)) + "/" + reference.Path(named), nil
}
