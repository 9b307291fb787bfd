// Package apiextensions defines the kinds of the API group apiextensions.k8s.io.
package apiextensions
