// Package warnings names what is accepted in the pods and templates of clients but hardly meant,
// in Kubernetes' words.
package warnings
