package nodeagent

import "time"

// SimulatedConfig sets how the simulated runtime behaves.
type SimulatedConfig struct {
	// StartDelay is how long a container takes to start.
	StartDelay time.Duration
	// RunFor is how long a container runs before it exits with ExitCode; for ever when 0.
	RunFor time.Duration
	// ExitCode is the code with which containers exit after RunFor.
	ExitCode int32
}
