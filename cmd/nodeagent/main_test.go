package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/daemon/daemontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHelp(t *testing.T) { daemontest.CheckHelp(t, command()) }
