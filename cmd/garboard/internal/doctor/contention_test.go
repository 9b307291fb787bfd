package doctor

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCheckContention(t *testing.T) {
	event := func(kind, namespace, name, message string, ago time.Duration) *corev1.Event {
		return &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name},
			Message:        message, LastTimestamp: metav1.NewTime(now.Add(-ago)),
		}
	}
	f := healthy()
	wantWarning(t, f, "", "", "", "")
	f.Contention = []*corev1.Event{
		event("ReplicaSet", "shop", "web", "new", time.Minute),
		event("Node", "", "n1", "old", time.Hour),
		event("ReplicaSet", "shop", "web", "older", 2*time.Hour),
	}
	wantWarning(t, f, "Contention", "writes", "(node n1, replicaset shop/web); the last Event: new", "managedFields")
	f.Contention, f.ContentionErr = nil, errors.New("forbidden")
	wantWarning(t, f, "Contention", "all", "forbidden", "may list events")
}
