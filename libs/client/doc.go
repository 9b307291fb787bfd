// Package client is the one way by which services write to the API, and read from it what no
// informer holds: a typed client, generic over the served kinds, on client-go's REST transport.
//
// New connects over HTTP; package fake keeps objects in memory with the same meaning. Both
// are an Interface, and Of gives the typed view of one kind:
//
//	pods := client.Of[*corev1.Pod](c)
//	pod, err := pods.Get(ctx, "default", "web-0", metav1.GetOptions{})
//
// Errors are apimachinery's: test them with apierrors.IsNotFound, IsConflict and so on.
package client
