"""Neural networks that actor and learner share: policy, critics, camera encoders."""
