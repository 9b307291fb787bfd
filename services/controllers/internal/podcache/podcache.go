package podcache

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/informer"
)

// Trim has the factory's informer of pods keep trimmed ones. It fails once that informer has started.
func Trim(factory *informer.Factory) error {
	common := newCommon()
	return informer.For[*corev1.Pod](factory).SetTransform(func(pod *corev1.Pod) (*corev1.Pod, error) {
		trim(pod)
		common.share(pod)
		return pod, nil
	})
}
