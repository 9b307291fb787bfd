package kinds

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/scheme"
)

// Scale is what the scale subresource shows of an object.
type Scale struct {
	// Wanted and Present are the numbers of replicas that the object asks for, and has.
	Wanted, Present int32
	// Selector selects the pods of the replicas.
	Selector labels.Selector
}

// Replicas is how the scale subresource reads and changes the objects of a kind.
type Replicas struct {
	// Path is the path of the wanted replicas. Their owner in a scale also owns that field.
	Path []string
	// Scale returns the scale of an object.
	Scale func(obj scheme.Object) (Scale, error)
	// Set sets the wanted replicas of an object.
	Set func(obj scheme.Object, wanted int32)
}

// ReplicasOf returns the Replicas of a kind with a Go type, in which spec.replicas is wanted. fields
// returns where an object has that, how many replicas it has, and their selector.
func ReplicasOf[T scheme.Object](fields func(obj T) (wanted **int32, present int32, selector *metav1.LabelSelector)) *Replicas {
	return &Replicas{
		Path: []string{"spec", "replicas"},
		Scale: func(obj scheme.Object) (Scale, error) {
			wanted, present, labels := fields(obj.(T))
			selector, err := metav1.LabelSelectorAsSelector(labels)
			if err != nil {
				return Scale{}, fmt.Errorf("reading the selector of %s: %w", obj.GetName(), err)
			}
			scale := Scale{Present: present, Selector: selector}
			if *wanted != nil {
				scale.Wanted = **wanted
			}
			return scale, nil
		},
		Set: func(obj scheme.Object, replicas int32) {
			wanted, _, _ := fields(obj.(T))
			*wanted = &replicas
		},
	}
}
