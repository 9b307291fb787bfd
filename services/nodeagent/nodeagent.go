package nodeagent

import (
	"context"
)

// Agent is one node's agent.
type Agent struct {
	cfg Config
}

// New checks the configuration and makes an agent. It connects to nothing.
func New(cfg Config) (*Agent, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Agent{cfg: cfg}, nil
}

// Run is the agent until ctx ends; it returns when everything it started has ended.
// Containers are left running: the next agent takes them over.
func (a *Agent) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Ready says why the agent is not ready to run pods; nil when it is.
func (a *Agent) Ready(context.Context) error {
	return nil
}
