// Package client is the one way for services to write to the API, and to read from it what no
// informer caches. It is a typed client, generic over the served kinds, on client-go's REST
// transport.
//
// New connects over HTTP; package fake stores objects in memory with the same semantics. Both are
// an Interface, and Of returns the typed client of one kind:
//
//	pods := client.Of[*corev1.Pod](c)
//	pod, err := pods.Get(ctx, "default", "web-0", metav1.GetOptions{})
//
// Errors are apimachinery's: test them with apierrors.IsNotFound, IsConflict and so on.
package client
