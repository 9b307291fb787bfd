// Package availability follows the APIServices, so that the apiserver passes on requests for the APIs that other
// servers serve, and keeps their condition Available (kube-aggregator, AvailableConditionController).
package availability
