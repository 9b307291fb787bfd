package controllers

import "github.com/garboard/garboard/services/controllers/internal/nodelifecycle"

// NodeLifecycle says when a silent node counts as lost, and how fast lost nodes are given up.
type NodeLifecycle = nodelifecycle.Options

// DefaultNodeLifecycle returns Kubernetes' settings.
func DefaultNodeLifecycle() NodeLifecycle { return nodelifecycle.DefaultOptions() }
