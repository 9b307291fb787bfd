// Package policy defines the kind of policy, the PodDisruptionBudget.
package policy
