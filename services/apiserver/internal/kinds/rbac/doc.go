// Package rbac defines the kinds of rbac.authorization.k8s.io: roles and their bindings.
package rbac
