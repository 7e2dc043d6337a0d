"""Local response normalisation of images: torch's values, by a mean that GPUs take fast in both directions."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class LocalResponseNorm(nn.LocalResponseNorm):
    """That of torch (Krizhevsky et al. 2012, section 3.3), for windows of an odd number of channels.

    torch takes the mean of the squares by `avg_pool3d`, whose gradient adds to each square from all windows that hold
    it, one atomic addition each: probably why AlexNet took an H100 29 ms for 256 images in bf16 (results/h100/one-gpu),
    of which a roofline gives its arithmetic and traffic 5. Here it is `avg_pool2d`, whose gradient is gathered, along
    the channels as they lie in memory. Under autocast the mean is taken in what torch's is: on CPUs in fp32.
    """

    def forward(self, images_NCHW: Tensor) -> Tensor:
        squares_NCHW = images_NCHW * images_NCHW
        if images_NCHW.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            squares_NCHW = squares_NCHW.float()
        if images_NCHW.is_contiguous(memory_format=torch.channels_last):
            squares_N1PC = squares_NCHW.permute(0, 2, 3, 1).flatten(1, 2).unsqueeze(1)
            means_N1PC = functional.avg_pool2d(squares_N1PC, (1, self.size), stride=1, padding=(0, self.size // 2))
            means_NCHW = means_N1PC.view_as(squares_NCHW.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        else:
            squares_N1CP = squares_NCHW.flatten(2).unsqueeze(1)
            means_N1CP = functional.avg_pool2d(squares_N1CP, (self.size, 1), stride=1, padding=(self.size // 2, 0))
            means_NCHW = means_N1CP.view_as(squares_NCHW)
        return images_NCHW / (means_NCHW * self.alpha + self.k) ** self.beta
